"""The client for threads. Every file here but link.py is made from its twin in _async by generate_sync.py."""
