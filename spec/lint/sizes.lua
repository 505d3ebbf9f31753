--- Limits of size: files of 1,000 lines, functions of 100 lines and of cyclomatic complexity 20 (a switch counts once,
-- however many cases it has). There is no list of exceptions.
-- From the command line: luajit spec/lint/sizes.lua, in the root of the source tree.
package.path = "./?.lua;" .. package.path
local files = require "spec.lint.files"

local sizes = { file_lines = 1000, function_lines = 100, complexity = 20 }

local branching = { ["if"] = true, ["for"] = true, ["while"] = true, ["switch"] = true }

-- Comments, texts and preprocessor lines become spaces: what is left has the same lines and only code.
local function code_only(text)
    local function blank(matched)
        return (matched:gsub("[^\n]", " "))
    end
    text = text:gsub("\\\n", " \n")
    local out, at = {}, 1
    while at <= #text do
        local from = text:find("[/\"'#]", at)
        if not from then
            out[#out + 1] = text:sub(at)
            break
        end
        out[#out + 1] = text:sub(at, from - 1)
        local first, two = text:sub(from, from), text:sub(from, from + 1)
        local to
        if two == "//" then
            to = (text:find("\n", from, true) or #text + 1) - 1
        elseif two == "/*" then
            to = select(2, text:find("*/", from + 2, true)) or #text
        elseif first == '"' or first == "'" then
            to = from + 1
            while to < #text and text:sub(to, to) ~= first do
                to = to + (text:sub(to, to) == "\\" and 2 or 1)
            end
        elseif first == "#" and text:sub(1, from - 1):match "\n?([^\n]*)$":match "^%s*$" then
            to = (text:find("\n", from, true) or #text + 1) - 1
        else
            out[#out + 1] = first
            at = from + 1
            goto continue
        end
        out[#out + 1] = blank(text:sub(from, to))
        at = to + 1
        ::continue::
    end
    return table.concat(out)
end

local function count_lines(text)
    local _, lines = text:gsub("\n", "")
    return lines
end

-- A `do ... while` has one branch: its while is counted, its do is not.
local function complexity(body)
    local count = 1
    for word in body:gmatch "[%a_][%w_]*" do
        if branching[word] then
            count = count + 1
        end
    end
    for _, operator in ipairs { "&&", "||", "?" } do
        local at = 1
        while true do
            local from, to = body:find(operator, at, true)
            if not from then
                break
            end
            count, at = count + 1, to + 1
        end
    end
    return count
end

--- The functions of a C file: {name=, line=, lines=, complexity=}.
function sizes.functions(text)
    local code, found, at = code_only(text), {}, 1
    while true do
        local open = code:find("{", at, true)
        if not open then
            return found
        end
        local _, close = code:find("%b{}", open)
        close = close or #code
        -- at the top level a block after a parenthesis is a function's: NAME(...) {
        local head = code:sub(at, open - 1):match "[^;}]*$"
        local name = head:match "([%a_][%w_]*)%s*%b()%s*$"
        if name then
            local body = code:sub(open, close)
            found[#found + 1] = {
                name = name, line = count_lines(code:sub(1, open)) + 1,
                lines = count_lines(body) + 1, complexity = complexity(body),
            }
        end
        at = close + 1
    end
end

--- What exceeds a limit in one file.
function sizes.check(path, text)
    local problems = {}
    local function limit(where, what, value, most)
        if value > most then
            problems[#problems + 1] = ("%s: %s is %d, at most %d"):format(where, what, value, most)
        end
    end
    limit(path, "number of lines", count_lines(text), sizes.file_lines)
    if path:match "%.[ch]$" then
        for _, each in ipairs(sizes.functions(text)) do
            local where = ("%s:%d: %s"):format(path, each.line, each.name)
            limit(where, "number of lines", each.lines, sizes.function_lines)
            limit(where, "cyclomatic complexity", each.complexity, sizes.complexity)
        end
    end
    return problems
end

function sizes.run()
    local problems, counted = {}, 0
    for _, folder in ipairs { "host", "lua", "operators", "spec" } do
        for _, path in ipairs(files.below(folder, "c", "h", "lua", "go")) do
            counted = counted + 1
            for _, problem in ipairs(sizes.check(path, files.read(path))) do
                problems[#problems + 1] = problem
            end
        end
    end
    files.report("sizes", problems, counted .. " files")
end

if arg and (arg[0] or ""):match "spec/lint/sizes%.lua$" then
    sizes.run()
end

return sizes
