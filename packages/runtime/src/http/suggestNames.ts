import { didYouMean, nearestNames } from '@weighbridge/domain';

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
}

/**
 * What to write instead of a name that a schema does not have at a path (a JSON pointer): the names that were most likely meant, or
 * all that there are. As sentences that begin with a space; empty if the schema says nothing of the place.
 */
export function suggestNames(schema: unknown, path: string, name: string): string {
  let place = schema as Schema | undefined;
  for (const part of path.split('/').slice(1)) {
    place =
      own(place?.properties, part) ?? place?.items ?? (place?.additionalProperties as Schema | undefined);
  }
  const known = Object.keys(place?.properties ?? {});
  if (known.length === 0) return '';
  const near = nearestNames(name, known, () => true);
  return near.length > 0 ? didYouMean(near) : ` There are ${known.join(', ')}.`;
}

function own(properties: Schema['properties'], name: string): Schema | undefined {
  return properties && Object.hasOwn(properties, name) ? properties[name] : undefined;
}
