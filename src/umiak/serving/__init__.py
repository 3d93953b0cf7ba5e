"""`umiak serve`: inference models over HTTP, with the Open Inference Protocol."""
