"""The findings site: pages over a store of runs, served or exported, from one code path."""
