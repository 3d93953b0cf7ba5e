"""DCN-V2. A package."""
