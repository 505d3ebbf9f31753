--- Files of the source tree, for the checks of this folder.
local lfs = require "lfs"

local files = {}

--- Paths of the files below `folder` whose name ends with one of the extensions, sorted.
function files.below(folder, ...)
    local found, wanted = {}, {}
    for _, extension in ipairs { ... } do
        wanted[extension] = true
    end
    local function walk(path)
        for entry in lfs.dir(path) do
            local each = path .. "/" .. entry
            if entry ~= "." and entry ~= ".." then
                if lfs.attributes(each, "mode") == "directory" then
                    walk(each)
                elseif wanted[entry:match "%.(%w+)$" or ""] then
                    found[#found + 1] = each
                end
            end
        end
    end
    if lfs.attributes(folder, "mode") == "directory" then
        walk(folder)
    end
    table.sort(found)
    return found
end

function files.read(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read "*a"
    file:close()
    return text
end

--- For a check run from the command line: prints what it found and ends with 1 when that is something.
function files.report(check, problems, counted)
    for _, problem in ipairs(problems) do
        io.stderr:write(problem, "\n")
    end
    io.write(("%s: %d problems in %s\n"):format(check, #problems, counted))
    os.exit(#problems == 0 and 0 or 1)
end

return files
