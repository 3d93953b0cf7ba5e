"""The command `umiak deploy`: manifests of the operator and of its resource definitions."""
