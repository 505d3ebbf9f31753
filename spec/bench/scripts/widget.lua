--- The operator under measurement: a ConfigMap for every Widget, and a status that says for which generation.
return {
  name = "widget",
  subject = "bench.tidelock.dev/v1/Widget",
  reconcile = function(widget)
    return {
      apply = {
        {
          apiVersion = "v1",
          kind = "ConfigMap",
          metadata = { name = widget.metadata.name .. "-cfg" },
          data = { size = tostring(widget.spec.size), color = widget.spec.color },
        },
      },
      status = { observedGeneration = widget.metadata.generation, ready = true },
    }
  end,
}
