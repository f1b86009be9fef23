"""A stack that runs now, on the stage of the playback."""
