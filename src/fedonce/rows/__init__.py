"""Who a row is: ids and their hashes, which of the host's rows a message is about, private set intersection."""
