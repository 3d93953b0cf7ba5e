"""Helpers of reader classes."""
