"""Where reader classes find their base and their settings."""
