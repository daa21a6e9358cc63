"""gRPC: servicers, the only wire mapping and the only error → code table."""
