import { AppError } from '@weighbridge/errors';
import { responseNotFound } from '../attempt/findStored.ts';
import type { ObjectOwners } from '../control/objectOwners.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import { findNamedObjects, type NamedObject } from '../formats/storedObjects.ts';

/** More than any client sends: it has the items of a long conversation. */
const MAX_OBJECTS = 2_048;

/**
 * Checks that a request may name the stored objects that it names, which is a way to read them; returns the id of the connector
 * that has them, undefined if no one knows. Throws a 404 for another principal's, and for an unknown one if the policy refuses
 * those.
 */
export async function connectorOfObjects(
  owners: ObjectOwners,
  key: ResolvedKey,
  { operation, body }: Pick<GenerationRequest, 'operation' | 'body'>,
): Promise<string | undefined> {
  const named = body.read((bytes) => findNamedObjects(bytes, operation.requestFields));
  if (named.length === 0) return undefined;
  if (named.length > MAX_OBJECTS) throw tooMany(named.length);
  const impossible = named.find(({ isPossible }) => !isPossible);
  if (impossible) throw notFound(impossible);
  const found = await owners.findAll(
    named.map(({ id }) => id),
    key.principalId,
  );
  let first: { readonly object: NamedObject; readonly connectorId: string } | undefined;
  for (const [at, object] of named.entries()) {
    const owner = found[at];
    if (owner?.kind === 'own') {
      if (first && first.connectorId !== owner.connectorId) throw severalAccounts(first.object, object);
      first ??= { object, connectorId: owner.connectorId };
    } else if (owner?.kind !== 'unknown' || key.refusesForeignObjects) throw notFound(object);
  }
  return first?.connectorId;
}

function notFound({ path }: NamedObject): AppError {
  if (path === 'previous_response_id') return responseNotFound(path);
  const message = `There is no stored object with the id that ${path} names.`;
  return new AppError('not_found', 'object_not_found', message, { param: path });
}

function severalAccounts(one: NamedObject, other: NamedObject): AppError {
  const message = `${one.path} and ${other.path} name objects of different accounts, and a request goes to one account only. Send one of them without the other.`;
  return new AppError('invalid_request', 'objects_of_several_accounts', message, { param: other.path });
}

function tooMany(count: number): AppError {
  const message = `The request names ${count} stored objects; at most ${MAX_OBJECTS} are looked up. Send their content instead, or fewer of them.`;
  return new AppError('invalid_request', 'too_many_objects', message);
}
