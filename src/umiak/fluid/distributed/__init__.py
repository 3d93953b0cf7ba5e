"""Programs of `paddle.fluid` on several processes: with parameter servers, and with gradients that are averaged.

    session = ps.init(ps.Sync())
    trained = TrainedProgram(main, startup, session)      main has been minimized
    trained.begin()                                       first values: trainer 0's are everybody's
    (loss,) = trained.step({"ids": ids, "label": labels}, [cost])
    (auc,) = trained.read({"ids": ids, "label": labels}, [auc], program=test)
    trained.save("runs/step-200")
    session.finish()

`umiak.fluid.distributed.trained` is the face for programs of ours; the others beside it are what `fluid.incubate.fleet` and
`fluid.DistributeTranspiler` give to scripts.
"""
