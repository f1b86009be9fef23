"""Many runs: what varies, who makes the runs, and the file of their results."""
