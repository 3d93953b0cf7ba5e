"""What is odd about the code of a reader class, and no error. A package.

hash_calls   `hash()` of texts, which is another number in another process
"""
