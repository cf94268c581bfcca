"""The rules that the subnet has used, one file each, rebuilt with their defects so that history can be replayed under them."""
