"""Images for jobs: a recipe, the Dockerfile that it makes, and the program that builds it."""
