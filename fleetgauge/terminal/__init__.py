"""Output for people: text made safe, tables that fit, options that all commands share. Imports none of the rooms."""
