"""What a stack's file says, as models: middleware, leases, and the stack of them."""
