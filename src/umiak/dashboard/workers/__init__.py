"""The workers of a run as a person looks at them: what each does, its process, its stack."""
