import { ENVELOPE_MARKS, type Format, KeyWatch } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { findNames, type Inline, innerFields, names, valueWithNames } from './namedFields.ts';
import { type Field, type Fields, MAX_IDS } from './requestFields/field.ts';

/** An object of a vendor that a request names, with the path of the first field that does. */
export interface NamedObject {
  readonly path: string;
  readonly id: string;
  /** Whether a vendor can have issued the id. */
  readonly isPossible: boolean;
  /** Every field that names it is for objects that are made outside the service. */
  readonly isMadeOutside: boolean;
  /** How much of its content the request has, at the least, wherever it names it. */
  readonly inline: Inline;
}

/** The objects that a request names in the fields that the table of its operation classes as `stored`, each once. */
export function findNamedObjects(bytes: Buffer, fields: Fields): NamedObject[] {
  const found = new Map<string, NamedObject>();
  /** Named by nothing yet but a field for which an item with the id will do. */
  const awaited = new Set<string>();
  findNames(
    bytes,
    fields,
    'stored',
    (path, name, { isPath = false, isUri = false, isMadeOutside = false, inline: from }, ofItem) => {
      const id = isUri ? objectInUri(name) : name;
      if (id === undefined) return;
      const isPossible = isPath || isUri ? isObjectPath(id) : isObjectId(id);
      const known = found.get(id);
      if (!known && found.size >= MAX_IDS) throw tooManyObjects();
      const first = known && (isPossible || !known.isPossible) ? known.path : path;
      const isAwaited = from === 'with_item';
      const here = from === 'always' ? 'whole' : from === 'with_content' ? ofItem : 'none';
      const isFound = from === 'with_content' && awaited.has(id);
      found.set(id, {
        path: first,
        id,
        isPossible: isPossible && (known?.isPossible ?? true),
        isMadeOutside: isMadeOutside && (known?.isMadeOutside ?? true),
        inline: known && isAwaited ? known.inline : isFound ? here : leastOf(known?.inline, here),
      });
      if (!known && isAwaited) awaited.add(id);
      else if (isFound) awaited.delete(id);
    },
  );
  return [...found.values()];
}

const INLINE: readonly Inline[] = ['none', 'part', 'whole'];

function leastOf(one: Inline = 'whole', other: Inline): Inline {
  return INLINE.indexOf(one) < INLINE.indexOf(other) ? one : other;
}

function tooManyObjects(): AppError {
  const message = `The request names more than ${MAX_IDS} stored objects; no more are looked up. Send their content instead, or fewer of them.`;
  return new AppError('invalid_request', 'too_many_objects', message);
}

const ID = /^[A-Za-z0-9_.:-]{1,512}$/;
const PATH = /^[A-Za-z0-9_.:/-]{1,512}$/;

/** Whether a text can be a vendor's id of an object. In a vendor's path, it is one segment, and can't be another thing. */
export function isObjectId(text: string): boolean {
  return ID.test(text) && text !== '.' && text !== '..';
}

/** Google names what it caches by a path, such as `cachedContents/abc`. */
function isObjectPath(text: string): boolean {
  return PATH.test(text) && text.split('/').every((segment) => isObjectId(segment));
}

const GOOGLE_URI = /^https?:\/\/[^/?#]*\.googleapis\.com\.?(?=[/:?#]|$)(?::\d+)?(?:\/v\d\w*)?\/*/i;
const OTHER_URI = /^https?:\/\//i;

/** The object that a URI leads to, by its path at Google: `files/abc`. Undefined for one that leads to another host. */
function objectInUri(uri: string): string | undefined {
  const path = uri.trim().replace(GOOGLE_URI, '');
  return OTHER_URI.test(path) ? undefined : path;
}

const WATCHES = new WeakMap<Fields, KeyWatch | null>();

/**
 * Notices, while a body is scanned for other fields, whether it may name a stored object, or have an envelope of the service's own:
 * most have neither, and are not walked. Undefined if requests of this table can't. Returned cleared.
 */
export function watchFor(fields: Fields, format: Format | undefined): KeyWatch | undefined {
  const known = WATCHES.get(fields);
  known?.clear();
  if (known !== undefined) return known ?? undefined;
  const keys = new Set<string>();
  for (const [name, field] of Object.entries(fields)) addKeys(keys, name, field);
  const watch = keys.size > 0 || format ? new KeyWatch([...keys], format && ENVELOPE_MARKS[format]) : null;
  WATCHES.set(fields, watch);
  return watch ?? undefined;
}

/** Adds the keys without which a field names no object: of `conversation.id`, that is `conversation`. */
function addKeys(keys: Set<string>, name: string, field: Field): void {
  if (!names(field, 'stored')) return;
  if (field.cost === 'stored') {
    keys.add(name.toLowerCase());
    return;
  }
  const value = valueWithNames(field);
  if (value.kind === 'object') addMembers(keys, value.fields);
  else if (value.kind === 'variants') {
    for (const variant of innerFields(value)) {
      const inner = variant && valueWithNames(variant);
      if (inner?.kind === 'object') addMembers(keys, inner.fields);
    }
  } else for (const inner of innerFields(value)) if (inner) addKeys(keys, name, inner);
}

function addMembers(keys: Set<string>, fields: Fields): void {
  for (const [name, field] of Object.entries(fields)) addKeys(keys, name, field);
}
