import { AppError } from '@weighbridge/errors';
import type { ResolvedKey } from '@weighbridge/state';
import { responseNotFound } from '../attempt/findStored.ts';
import type { ObjectAccess } from '../attempt/plan.ts';
import type { ObjectOwners, Owner } from '../control/objectOwners.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import { findNamedObjects, type NamedObject } from '../formats/storedObjects.ts';

/**
 * Looks up the stored objects that a request names, since naming an object can read it; undefined if it names none. Another
 * principal's are refused, and unknown ones if the policy refuses those. The answer does not tell which of the two it was.
 */
export async function accessToObjects(
  owners: ObjectOwners,
  key: ResolvedKey,
  { operation, body }: Pick<GenerationRequest, 'operation' | 'body'>,
): Promise<ObjectAccess | undefined> {
  const named = body.read((bytes) => findNamedObjects(bytes, operation.requestFields));
  if (named.length === 0) return undefined;
  const possible = named.filter(({ isPossible }) => isPossible);
  const found = await owners.findAll(
    possible.map(({ id }) => id),
    key.principalId,
  );
  const ownerOf = new Map<NamedObject, Owner | undefined>(possible.map((object, at) => [object, found[at]]));
  // An item that is there as a whole is no one's, unless a vendor stores an original of another principal.
  const read = named.filter((object) => object.inline !== 'whole' || isMadeByAnother(ownerOf.get(object)));
  const others = read.filter((object) => ownerOf.get(object)?.kind !== 'own');
  const [other] = others;
  return {
    connectorId: accountOf(read, ownerOf),
    repeatable: new Set(named.flatMap((object) => (isMaker(ownerOf.get(object)) ? [] : [object.id]))),
    containerGb: Math.max(0, ...found.map((owner) => (owner.kind === 'own' ? owner.containerGb : 0))),
    isReading: read.length > 0,
    others,
    // Of several, the first is named, whichever of them is whose.
    notFound: other && notFound(other),
    isRefused: others.some((object) => key.refusesForeignObjects || !mayBeRead(object, ownerOf.get(object))),
  };
}

function isMaker(owner: Owner | undefined): boolean {
  return owner?.kind === 'own' && !owner.isClaim;
}

function isMadeByAnother(owner: Owner | undefined): boolean {
  return owner?.kind === 'foreign' && !owner.isClaim;
}

/** Of what is there in part, a claim alone tells of no stored original. */
function mayBeRead({ inline }: NamedObject, owner: Owner | undefined): boolean {
  return owner?.kind === 'unknown' || (owner?.kind === 'foreign' && owner.isClaim && inline === 'part');
}

/** The connector that has the caller's own objects, of which the request has nothing. */
function accountOf(
  named: readonly NamedObject[],
  ownerOf: ReadonlyMap<NamedObject, Owner | undefined>,
): string | undefined {
  let first: { readonly object: NamedObject; readonly connectorId: string } | undefined;
  for (const object of named) {
    const owner = ownerOf.get(object);
    if (owner?.kind !== 'own' || object.inline !== 'none') continue;
    const { connectorId } = owner;
    if (first && first.connectorId !== connectorId) throw severalAccounts(first.object, object);
    first ??= { object, connectorId };
  }
  return first?.connectorId;
}

function notFound({ path }: NamedObject): AppError {
  if (path === 'previous_response_id') return responseNotFound(path);
  const message = `There is no stored object with the id that ${path} names for this key, or no vendor took the request that names it. Check the id; without it, the vendor says whether anything else is wrong.`;
  return new AppError('not_found', 'object_not_found', message, { param: path });
}

function severalAccounts(one: NamedObject, other: NamedObject): AppError {
  const message = `${one.path} and ${other.path} name objects of different accounts, and a request goes to one account only. Send one of them without the other.`;
  return new AppError('invalid_request', 'objects_of_several_accounts', message, { param: other.path });
}
