"""The sandbox: strangers' programs, run without network, files, secrets or a word in their own judgement."""
