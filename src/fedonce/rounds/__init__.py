"""More rounds than one."""
