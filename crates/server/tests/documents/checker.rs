//! Checker of the keywords of JSON Schema that docs/site.schema.json uses.

use serde_json::Value;

/// Returns whether `value` agrees with `schema`. A keyword that is not known
/// panics: none is ignored but descriptions, defaults and patterns, for which
/// this checker has no regular expressions.
pub(crate) fn agrees(root: &Value, schema: &Value, value: &Value) -> bool {
    let Value::Object(keywords) = schema else {
        return schema
            .as_bool()
            .expect("a schema is an object or a boolean");
    };
    keywords
        .iter()
        .all(|(keyword, expected)| match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "pattern" => true,
            "$ref" => {
                let pointer = expected.as_str().unwrap().strip_prefix('#').unwrap();
                agrees(root, root.pointer(pointer).expect(pointer), value)
            }
            "type" => is_type(expected.as_str().unwrap(), value),
            "enum" => expected.as_array().unwrap().contains(value),
            "oneOf" => count(root, expected, value) == 1,
            "anyOf" => count(root, expected, value) > 0,
            "not" => !agrees(root, expected, value),
            "if" => {
                let branch = if agrees(root, expected, value) {
                    "then"
                } else {
                    "else"
                };
                keywords
                    .get(branch)
                    .is_none_or(|branch| agrees(root, branch, value))
            }
            "then" | "else" => true,
            "required"
            | "properties"
            | "additionalProperties"
            | "minProperties"
            | "maxProperties" => {
                value
                    .is_object()
                    .then(|| object(root, (keyword, expected), keywords, value))
                    != Some(false)
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                let mut items = items.map(|item| agrees(root, expected, item));
                items.all(|agrees| agrees)
            }
            "minItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 >= bound(expected)),
            "maxItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 <= bound(expected)),
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.len() as u64 >= bound(expected)),
            "maxLength" => value
                .as_str()
                .is_none_or(|text| text.len() as u64 <= bound(expected)),
            "minimum" => value
                .as_i64()
                .is_none_or(|number| number >= expected.as_i64().unwrap()),
            "maximum" => value
                .as_i64()
                .is_none_or(|number| number <= expected.as_i64().unwrap()),
            other => panic!("the checker does not know {other}"),
        })
}

fn object(
    root: &Value,
    (keyword, expected): (&str, &Value),
    keywords: &serde_json::Map<String, Value>,
    value: &Value,
) -> bool {
    let value = value.as_object().unwrap();
    let properties = keywords.get("properties").and_then(Value::as_object);
    let is_known = |key: &str| properties.is_some_and(|known| known.contains_key(key));
    match keyword {
        "required" => {
            let mut names = expected.as_array().unwrap().iter();
            names.all(|name| value.contains_key(name.as_str().unwrap()))
        }
        "properties" => expected.as_object().unwrap().iter().all(|(key, schema)| {
            value
                .get(key)
                .is_none_or(|value| agrees(root, schema, value))
        }),
        "additionalProperties" => value
            .iter()
            .all(|(key, value)| is_known(key) || agrees(root, expected, value)),
        "minProperties" => value.len() as u64 >= bound(expected),
        _ => value.len() as u64 <= bound(expected),
    }
}

fn count(root: &Value, schemas: &Value, value: &Value) -> usize {
    let schemas = schemas.as_array().unwrap().iter();
    schemas.filter(|schema| agrees(root, schema, value)).count()
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        other => panic!("the checker does not know the type {other}"),
    }
}

fn bound(value: &Value) -> u64 {
    value.as_u64().unwrap()
}
