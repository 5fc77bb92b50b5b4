import { create, toBinary } from '@bufbuild/protobuf';
import { headers, type NatsConnection } from '@nats-io/transport-node';
import { UsageConfirmQuerySchema } from '@weighbridge/contracts';
import { ACK_REQUESTS } from '../usageStream/subjects.ts';
import { type NatsRole, type PermissionOptions, permissionsOf } from './permissions.ts';

/** What a user of NATS may not do, by role: subjects as in the server's configuration. */
export type MissingPermissions = Readonly<Record<NatsRole, readonly MissingPermission[]>>;

export interface MissingPermission {
  readonly operation: 'publish' | 'subscribe';
  readonly subject: string;
}

/** In place of what a permission leaves open: no shard, producer or key has this name. */
const PROBE = 'weighbridge-doctor';
/** No server takes this for a request that it would carry out. */
const MALFORMED = '{';
/** The server reports a refusal without being asked; it is behind the response to a ping. */
const FLUSHES = 2;

/**
 * Tries each permission that an app needs, without an effect: JetStream refuses the messages, since they are for a stream of
 * another name, and its API since they are malformed.
 */
export async function missingPermissions(
  connection: NatsConnection,
  options: PermissionOptions,
): Promise<MissingPermissions> {
  const refused = new Set<string>();
  const following = (async () => {
    for await (const status of connection.status()) {
      if (status.type !== 'error') continue;
      const { operation, subject } = status.error as {
        readonly operation?: string;
        readonly subject?: string;
      };
      refused.add(`${operation === 'publish' ? 'publish' : 'subscribe'} ${subject}`);
    }
  })();
  void following.catch(() => {});
  const roles = {
    'data-plane': permissionsOf('data-plane', options),
    metering: permissionsOf('metering', options),
  };
  for (const { publish, subscribe } of Object.values(roles)) {
    for (const subject of publish) tryPublishing(connection, probeOf(subject));
    for (const subject of subscribe) connection.subscribe(subject, { callback: () => {} }).unsubscribe();
  }
  for (let at = 0; at < FLUSHES; at++) await connection.flush();
  const missing = (role: NatsRole): MissingPermission[] => [
    ...roles[role].publish
      .filter((subject) => refused.has(`publish ${probeOf(subject)}`))
      .map((subject) => ({ operation: 'publish' as const, subject })),
    ...roles[role].subscribe
      .filter((subject) => refused.has(`subscribe ${subject}`))
      .map((subject) => ({ operation: 'subscribe' as const, subject })),
  ];
  return { 'data-plane': missing('data-plane'), metering: missing('metering') };
}

/** A subject that the permission covers. */
function probeOf(permitted: string): string {
  return permitted.replaceAll('*', PROBE).replace(/>$/, PROBE);
}

function tryPublishing(connection: NatsConnection, subject: string): void {
  const elsewhere = headers();
  elsewhere.set('Nats-Expected-Stream', PROBE);
  // Metering would log what it can't read.
  const payload =
    subject === ACK_REQUESTS
      ? toBinary(
          UsageConfirmQuerySchema,
          create(UsageConfirmQuerySchema, { producerId: '00000000-0000-0000-0000-000000000000' }),
        )
      : MALFORMED;
  connection.publish(subject, payload, { headers: elsewhere });
}
