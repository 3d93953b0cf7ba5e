"""Models for programs without Paddle."""
