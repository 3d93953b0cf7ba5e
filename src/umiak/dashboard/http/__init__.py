"""A small HTTP server: requests read, judged and answered, on asyncio alone."""
