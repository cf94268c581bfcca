"""Program synthesis: a specification in words, a program in answer, judged by what it does on inputs that were not shown."""
