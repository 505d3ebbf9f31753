std = "luajit"
max_line_length = 140
codes = true
exclude_files = {"build"}
files["**/*_spec.lua"] = {std = "luajit+busted"}
