"""Other systems in the roles Epicast is measured in, each as processes of its own on loopback."""
