--- The library of a script (lua/tidelock), as `require "tidelock"` gives it.
require "tidelock.kit" -- makes the native part known

describe("tidelock", function()
  local k8s = require "tidelock"
  local json = require "tidelock.json"

  describe("condition", function()
    it("takes booleans, texts and nil", function()
      local want = { type = "Ready", status = "True", reason = "Up", message = "" }
      assert.same(want, k8s.condition("Ready", true, "Up"))
      assert.equal("False", k8s.condition("Ready", false, "Down").status)
      assert.equal("Unknown", k8s.condition("Ready", nil, "NotSeen").status)
      assert.equal("Unknown", k8s.condition("Ready", "Unknown", "NotSeen").status)
      assert.equal("all good", k8s.condition("Ready", "True", "Up", "all good").message)
    end)

    it("names what is wrong", function()
      assert.error_matches(function() k8s.condition("Ready", 1, "Up") end, "k8s.condition: status: expected true")
      assert.error_matches(function() k8s.condition("Ready", true) end, "k8s.condition: reason: expected text, got nil")
      assert.error_matches(function() k8s.condition("", true, "Up") end, "type: expected text, got an empty one")
    end)
  end)

  it("makes events", function()
    assert.same({ type = "Normal", reason = "Synced", message = "ok" }, k8s.event("Normal", "Synced", "ok"))
    assert.error_matches(function() k8s.event("Error", "Synced", "x") end, 'expected "Normal" or "Warning"')
  end)

  describe("get", function()
    local pod = json.decode [[{"spec": {"containers": [{"image": "web"}], "n": 0, "f": false, "z": null},
      "metadata": {"annotations": {"example.com/a.b": "x"}}}]]

    it("walks by dots, by lists and into arrays", function()
      assert.equal("web", k8s.get(pod, "spec.containers.1.image"))
      assert.equal("x", k8s.get(pod, { "metadata", "annotations", "example.com/a.b" }))
      assert.equal("web", k8s.get(pod, { "spec", "containers", 1, "image" }))
    end)

    it("gives the default for what is missing only", function()
      assert.is_nil(k8s.get(pod, "status.phase"))
      assert.equal("none", k8s.get(pod, "status.phase", "none"))
      assert.equal("none", k8s.get(nil, "status", "none"))
      assert.equal("none", k8s.get(pod, "spec.n.deeper", "none"))
      assert.equal("none", k8s.get(pod, "spec.z", "none"))
      assert.equal(0, k8s.get(pod, "spec.n", 5))
      assert.is_false(k8s.get(pod, "spec.f", true))
    end)
  end)

  describe("labels_match", function()
    local labels = { app = "web", tier = "front", ["example.com/x"] = "1" }
    local cases = {
      { "", true }, { "app=web", true }, { "app==web", true }, { "app=db", false }, { "app!=db", true },
      { "app!=web", false }, { "missing!=x", true }, { "app", true }, { "missing", false }, { "!missing", true },
      { "!app", false }, { "app in (db, web)", true }, { "app in (db)", false }, { "app notin (db)", true },
      { "app notin (web,db)", false }, { "missing notin (a)", true }, { "missing in (a)", false },
      { "app=web,tier in (front),!gone", true }, { "app=web , tier=back", false }, { "example.com/x=1", true },
      { "app=", false }, { "app in (db,)", false },
    }
    for _, case in ipairs(cases) do
      it("'" .. case[1] .. "' is " .. tostring(case[2]), function()
        assert.equal(case[2], k8s.labels_match(case[1], labels))
      end)
    end

    it("takes maps and LabelSelectors", function()
      assert.is_true(k8s.labels_match({ app = "web" }, labels))
      assert.is_false(k8s.labels_match({ app = "web", tier = "back" }, labels))
      assert.is_true(k8s.labels_match({}, nil))
      assert.is_true(k8s.labels_match({
        matchLabels = { app = "web" },
        matchExpressions = {
          { key = "tier", operator = "In", values = { "front" } }, { key = "old", operator = "DoesNotExist" },
          { key = "app", operator = "NotIn", values = { "db" } }, { key = "app", operator = "Exists" },
        },
      }, labels))
    end)

    it("refuses what is no selector", function()
      for _, text in ipairs { "a=b=c", "app in web", "app like (a)", "=", "a b", ",", "app in (a", "x=!y" } do
        assert.error_matches(function() k8s.labels_match(text, labels) end, "label selector", 1, false, text)
      end
      assert.error_matches(function()
        k8s.labels_match({ matchExpressions = { { key = "a", operator = "Gt" } } }, labels)
      end, "operator Gt")
    end)
  end)

  it("copies deeply and keeps lists and nulls", function()
    local text = '{"a":[],"b":{},"c":[{"d":[]}],"e":null}'
    local original = json.decode(text)
    local copy = k8s.copy(original)
    copy.c[1].d[1] = 1
    assert.equal(text, json.encode(original))
    assert.equal('{"a":[],"b":{},"c":[{"d":[1]}],"e":null}', json.encode(copy))
  end)

  it("merges objects, replaces lists, and takes away with null", function()
    local base = json.decode '{"a":{"x":1,"y":2},"l":[1,2],"s":"t"}'
    local over = { a = { y = 3, z = { 4 } }, l = k8s.array {}, s = k8s.null }
    assert.equal('{"a":{"x":1,"y":3,"z":[4]},"l":[]}', json.encode(k8s.merge(base, over)))
    assert.equal('{"a":{"x":1,"y":2},"l":[1,2],"s":"t"}', json.encode(base))
  end)

  it("finds in lists", function()
    local list = { { type = "A" }, { type = "Ready", status = "True" } }
    local found, at = k8s.list_find(list, "type", "Ready")
    assert.equal("True", found.status)
    assert.equal(2, at)
    assert.is_nil(k8s.list_find(list, "type", "B"))
    assert.is_nil(k8s.list_find(nil, "type", "B"))
  end)

  it("knows quantities", function()
    assert.is_true(k8s.quantity "1000m" == k8s.quantity(1))
    assert.is_true(k8s.quantity "1Gi" > k8s.quantity "1G")
    assert.equal("2Gi", tostring(k8s.quantity "1Gi" + "1024Mi"))
    assert.equal('{"cpu":"1500m"}', json.encode { cpu = k8s.quantity "500m" * 3 })
    assert.error_matches(function() k8s.quantity "1gi" end, "is not a quantity")
  end)

  it("converts times and durations", function()
    assert.equal(1772360430, k8s.time "2026-03-01T10:20:30Z")
    assert.equal("2026-03-01T10:20:30Z", k8s.format_time(1772360430.9))
    assert.equal(k8s.time "2026-03-01T10:20:30Z", k8s.time "2026-03-01T12:20:30+02:00")
    assert.equal(90, k8s.duration "1m30s")
    assert.error_matches(function() k8s.time "yesterday" end, "is not a time")
    assert.error_matches(function() k8s.format_time(0 / 0) end, "seconds since 1970")
  end)

  it("fails with a reason", function()
    local ok, failure = pcall(k8s.retry, "NotYet", "the database is down", "30s")
    assert.is_false(ok)
    assert.equal("retry", failure.kind)
    assert.equal("NotYet", failure.reason)
    assert.equal("the database is down", failure.message)
    assert.error_matches(function() k8s.retry("NotYet", "x", "soon") end, "Go duration")
    assert.error_matches(function() k8s.invalid() end, "reason: expected text")
  end)

  it("has base64, sha256 and YAML", function()
    local base64, sha256, yaml = require "tidelock.base64", require "tidelock.sha256", require "tidelock.yaml"
    assert.equal("aGk=", base64.encode "hi")
    assert.equal("hi\0", base64.decode(base64.encode "hi\0"))
    assert.equal("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", sha256.hex "abc")
    assert.same({ a = { 1, "x" } }, yaml.decode "a: [1, x]")
    assert.equal(2, #yaml.decode_all "a: 1\n---\nb: 2\n")
    assert.is_nil(yaml.decode "")
    assert.error_matches(function() yaml.decode "a: 1\n---\nb: 2\n" end, "use yaml.decode_all")
    assert.same({ a = { { b = "yes" } } }, yaml.decode(yaml.encode { a = { { b = "yes" } } }))
  end)
end)
