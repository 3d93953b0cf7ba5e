"""The words that everything else is written in: values and pure functions, standard library only. A package."""
