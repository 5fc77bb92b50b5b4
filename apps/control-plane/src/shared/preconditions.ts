import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { AppError } from '@weighbridge/errors';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type TObject, Type } from 'typebox';

/**
 * Throws a 412 if a request names another state of its resource than the current one; undefined: there is no such resource. The
 * caller holds a lock on the resource, and changes it in the same transaction: so no one's change is lost.
 */
export type AssertMatch = (current: object | undefined) => void;

/**
 * What a call of a plan expects of its resource instead of an ETag: values that it showed; null: that there is none; undefined: nothing.
 */
export type Expected = Readonly<Record<string, unknown>> | null | undefined;

/** What an ETag is made of: the fields of the resource's schema, without those that change by themselves. */
export function versionedFields(schema: TObject, ...without: readonly string[]): readonly string[] {
  return Object.keys(schema.properties).filter((name) => !without.includes(name));
}

/**
 * When a change was made: later than the change before it, also within a millisecond. So a change of what is never shown, such as a
 * secret, changes the ETag too.
 */
export function changedAt(before: Date, now: Date): Date {
  return now > before ? now : new Date(before.getTime() + 1);
}

const IF_MATCH = Type.Optional(Type.String());
const IF_NONE_MATCH = Type.Optional(Type.String());
const WRITES = new Set(['PATCH', 'PUT', 'DELETE']);
/** A comma within quotes is part of its tag. */
const ENTITY_TAG = /(?:W\/)?"[\x21\x23-\x7e]*"/g;
const ENTITY_TAGS = new RegExp(`^${ENTITY_TAG.source}(?:\\s*,\\s*${ENTITY_TAG.source})*$`);

/**
 * Gives the responses of every route whose config has `versioned` an ETag, and lets its changes depend on one. Call it before these
 * routes are registered. `expected`: of the call of a plan that is made now.
 */
export function acceptPreconditions(api: FastifyInstance, expected: () => Expected = () => undefined): void {
  api.decorateRequest('assertMatch', null as unknown as AssertMatch);
  api.addHook('onRoute', (route) => {
    const { versioned, dependsOn, createsOnce } = route.config ?? {};
    const methods = [route.method].flat();
    const changes = dependsOn !== undefined || methods.some((method) => WRITES.has(method));
    if (versioned === undefined && dependsOn === undefined) return;
    if (createsOnce) {
      const { properties = {} } = (route.schema?.headers ?? {}) as Partial<TObject>;
      route.schema = {
        ...route.schema,
        headers: Type.Object({ ...properties, 'if-none-match': IF_NONE_MATCH }),
      };
    } else if (changes) {
      const { properties = {} } = (route.schema?.headers ?? {}) as Partial<TObject>;
      const ofPut = methods.includes('PUT') && { 'if-none-match': IF_NONE_MATCH };
      route.schema = {
        ...route.schema,
        headers: Type.Object({ ...properties, 'if-match': IF_MATCH, ...ofPut }),
      };
    }
    if (versioned === undefined) return;
    route.preSerialization = [
      ...[route.preSerialization ?? []].flat(),
      async (_request, reply, payload) => {
        if (reply.statusCode < 300) reply.header('etag', etagOf(payload as object, versioned));
        return payload;
      },
    ];
  });
  api.addHook('preValidation', async (request) => {
    request.assertMatch = preconditionOf(request, expected());
  });
}

function preconditionOf({ headers, method, routeOptions }: FastifyRequest, expected: Expected): AssertMatch {
  const { versioned, dependsOn = versioned, reads, createsOnce } = routeOptions.config;
  const match = headers['if-match'];
  const noneMatch = headers['if-none-match'];
  // Of a read they would only save the body.
  if (reads || !(WRITES.has(method) || method === 'POST')) return () => undefined;
  const supported = dependsOn !== undefined && (WRITES.has(method) || routeOptions.config.dependsOn);
  if (match !== undefined && !supported) throw notSupported('If-Match');
  if (noneMatch !== undefined && !createsOnce && !(supported && method === 'PUT'))
    throw notSupported('If-None-Match');
  if (noneMatch !== undefined && noneMatch !== '*') {
    throw malformed('If-None-Match: can only be *, which refuses to change what exists.', 'if-none-match');
  }
  if (expected !== undefined) {
    const isSupported = expected === null ? createsOnce || (supported && method === 'PUT') : supported;
    if (!isSupported)
      throw malformed(
        "expects: this operation can't depend on the state of its resource. Leave it out.",
        'expects',
      );
    return (current) => assertExpected(expected, current, dependsOn ?? []);
  }
  const wanted = match === undefined ? undefined : tagsOf(match);
  return (current) => {
    if (noneMatch !== undefined && current !== undefined) throw exists(current, dependsOn ?? []);
    if (wanted === undefined) return;
    if (current === undefined) throw absent();
    const etag = etagOf(current, dependsOn ?? []);
    if (wanted !== '*' && !wanted.includes(etag)) throw changed(current, etag);
  };
}

function assertExpected(
  expected: NonNullable<Expected> | null,
  current: object | undefined,
  fields: readonly string[],
): void {
  if (expected === null) {
    if (current === undefined) return;
    const message = 'The resource exists already: it was made since the plan was.';
    throw new AppError('precondition', 'precondition_failed', message, { param: 'expects' });
  }
  // As a response shows it.
  const shown = JSON.parse(JSON.stringify(current ?? {})) as Readonly<Record<string, unknown>>;
  const other = fields.find(
    (name) => name in expected && !isDeepStrictEqual(expected[name], shown[name] ?? null),
  );
  if (current !== undefined && other === undefined) return;
  const message =
    current === undefined
      ? 'The resource no longer exists.'
      : `The resource was changed since the plan was made: ${other} has another value.`;
  throw new AppError('precondition', 'precondition_failed', message, { param: 'expects' });
}

/** A strong tag for the same values, whoever asks; a number that counts versions is its own. */
function etagOf(resource: object, fields: readonly string[]): string {
  const values = fields.map((name) => (resource as Readonly<Record<string, unknown>>)[name] ?? null);
  const [only] = values;
  if (values.length === 1 && typeof only === 'number') return `"${only}"`;
  return `"${createHash('sha256').update(JSON.stringify(values)).digest('base64url').slice(0, 27)}"`;
}

function tagsOf(header: string): '*' | readonly string[] {
  if (header.trim() === '*') return '*';
  if (ENTITY_TAGS.test(header.trim())) return header.match(ENTITY_TAG) ?? [];
  throw malformed('If-Match: must be * or an ETag with its quotes, as a response had it.', 'if-match');
}

function malformed(message: string, param: string): AppError {
  return new AppError('invalid_request', 'invalid_request', message, { param });
}

function notSupported(header: string): AppError {
  const message = `${header}: this operation can't depend on an ETag. Leave the header out.`;
  return malformed(message, header.toLowerCase());
}

function changed(current: object, etag: string): AppError {
  const message =
    'The resource is not what If-Match names: it was changed since it was read. Nothing was changed. Look at `current`, and repeat the request with its ETag.';
  const options = { param: 'if-match', details: { current }, headers: { etag } };
  return new AppError('precondition', 'precondition_failed', message, options);
}

function absent(): AppError {
  const message = 'If-Match: the resource does not exist, so nothing was changed.';
  return new AppError('precondition', 'precondition_failed', message, { param: 'if-match' });
}

function exists(current: object, fields: readonly string[]): AppError {
  const message = 'If-None-Match: the resource exists already, so nothing was changed. Look at `current`.';
  const etag = etagOf(current, fields);
  const options = { param: 'if-none-match', details: { current }, headers: { etag } };
  return new AppError('precondition', 'precondition_failed', message, options);
}
