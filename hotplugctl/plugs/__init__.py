"""What happens to Changes beside stdout: brokers and webhooks, hooks, metrics and labels."""
