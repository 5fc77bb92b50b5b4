import type { Static, TObject } from 'typebox';
import { Convert, Default, Errors } from 'typebox/value';

/** Missing or invalid settings, one line for each. Values are omitted, since some are secrets. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

/**
 * Reads settings from the environment with a typebox schema: converts, adds defaults, and validates. An empty value counts
 * as missing. A property's `description` is the text of its error. Throws a SettingsError.
 */
export function readSettings<S extends TObject>(
  schema: S,
  env: Readonly<Record<string, string | undefined>>,
): Static<S> {
  const given = Object.keys(schema.properties)
    .filter((name) => env[name])
    .map((name) => [name, env[name]] as const);
  const settings = Default(schema, Convert(schema, Object.fromEntries(given)));
  const wrong = new Set<string>();
  for (const error of Errors(schema, settings)) {
    const named =
      error.keyword === 'required' ? error.params.requiredProperties : [error.instancePath.split('/')[1]];
    for (const name of named) if (name) wrong.add(name);
  }
  if (wrong.size > 0) {
    const lines = [...wrong].map(
      (name) => `${name} ${env[name] ? 'is not valid' : 'is missing'}: ${describe(schema, name)}`,
    );
    throw new SettingsError(lines.join('\n'));
  }
  return settings as Static<S>;
}

function describe(schema: TObject, name: string): string {
  const property = schema.properties[name] as { readonly description?: string } | undefined;
  return property?.description ?? 'see docs/configuration.md';
}
