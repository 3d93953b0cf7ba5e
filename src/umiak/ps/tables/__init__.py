"""Tables as a program sees them: through a layer of a framework, or with numpy alone. Adapters."""
