"""Pages of the site: one module builds the contexts of one page and its close relatives."""
