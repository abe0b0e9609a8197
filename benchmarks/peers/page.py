PAGE="x"
def write_page(r): pass
