def write_pictures(r): pass
