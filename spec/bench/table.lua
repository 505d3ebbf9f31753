-- Reads the driver's lines, one JSON object each, and prints them as a table of Markdown, with the CPU of each operator
-- in ratio to ours.
--
-- "wall" of an update begins when the driver has made all its changes; an operator that slows the driver down gets on
-- with its work meanwhile. "with the changes" begins with the first one.
local REST_S = 3 -- of the driver between converge and update

local function field(line, name)
  return line:match('"' .. name .. '": "([^"]*)"') or tonumber(line:match('"' .. name .. '": ([%d.]+)'))
end

local rows, ours = {}, {}
local converged_at
for line in io.lines() do
  local row = { label = field(line, "label"), phase = field(line, "phase") }
  for _, name in ipairs { "objects", "wall_s", "cpu_us_per_object", "rss_peak_mb", "writes", "at" } do
    row[name] = field(line, name)
  end
  if row.phase == "converge" then
    converged_at = row.at
  elseif row.phase == "update" then
    row.with_changes_s = row.at - converged_at - REST_S
  end
  rows[#rows + 1] = row
  if row.label == "tidelock" then
    ours[row.phase] = row.cpu_us_per_object
  end
end

-- Phases in the order they were first seen, so that equal phases stand together.
local order, phases = {}, {}
for _, row in ipairs(rows) do
  if not phases[row.phase] then
    phases[row.phase] = {}
    order[#order + 1] = row.phase
  end
  table.insert(phases[row.phase], row)
end

print "| phase | operator | CPU us/object | ours / its | wall s | with the changes s | writes/object | peak MB |"
print "|---|---|---|---|---|---|---|---|"
for _, phase in ipairs(order) do
  for _, row in ipairs(phases[phase]) do
    local ratio = ours[phase] and row.cpu_us_per_object > 0 and ours[phase] / row.cpu_us_per_object
    print(
      ("| %s | %s | %d | %s | %s | %s | %.2f | %.1f |"):format(
        phase,
        row.label,
        row.cpu_us_per_object,
        ratio and ("%.2f"):format(ratio) or "-",
        row.wall_s and ("%.1f"):format(row.wall_s) or "-",
        row.with_changes_s and ("%.1f"):format(row.with_changes_s) or "-",
        row.writes / row.objects,
        row.rss_peak_mb
      )
    )
  end
end
