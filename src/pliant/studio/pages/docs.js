// The OpenAPI document, for eyes.

import { get } from "./api.js";
import { element, find } from "./dom.js";
import { trying } from "./shell.js";

function resolved(schema, document, depth = 0) {
  if (schema?.$ref && depth < 4) {
    return resolved(document.components.schemas[schema.$ref.split("/").pop()], document, depth + 1);
  }
  if (schema?.properties) {
    return Object.fromEntries(
      Object.entries(schema.properties).map(([name, one]) => [name, resolved(one, document, depth + 1)]),
    );
  }
  if (schema?.items) return [resolved(schema.items, document, depth + 1)];
  if (schema?.anyOf) return schema.anyOf.map((one) => one.type ?? "object").join(" or ");
  return schema?.enum?.join(" | ") ?? schema?.type ?? "anything";
}

function shown(path, method, operation, document) {
  const parts = [];
  if (operation.parameters.length) {
    parts.push(
      element(
        "ul",
        {},
        operation.parameters.map((one) =>
          element("li", {}, element("code", {}, one.name), ` in the ${one.in}${one.required ? "" : ", optional"}: ${resolved(one.schema, document)}`),
        ),
      ),
    );
  }
  const sent = operation.requestBody?.content["application/json"]?.schema;
  if (operation.requestBody) {
    parts.push(element("p", {}, "Takes"), element("pre", { tabindex: "0" }, sent ? JSON.stringify(resolved(sent, document), null, 2) : "the bytes of a file"));
  }
  const returned = operation.responses["200"].content?.["application/json"]?.schema;
  if (returned) parts.push(element("p", {}, "Returns"), element("pre", { tabindex: "0" }, JSON.stringify(resolved(returned, document), null, 2)));
  const title = element("summary", {}, element("span", { class: "method" }, method.toUpperCase()), element("code", {}, path), ` ${operation.summary}`);
  return element("details", { class: "operation panel" }, title, parts);
}

trying(async () => {
  const document = await get("/openapi.json");
  const tags = new Map();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0];
      if (!tags.has(tag)) tags.set(tag, []);
      tags.get(tag).push(shown(path, method, operation, document));
    }
  }
  find("#operations").replaceChildren(
    ...[...tags].flatMap(([tag, operations]) => [element("h2", {}, tag), ...operations]),
  );
});
