"""What a conversion reads, from the files of formats: each is read into a `Description`."""
