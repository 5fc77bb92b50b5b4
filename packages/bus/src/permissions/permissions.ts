import { CACHE_BUCKET, PIN_BUCKET, RESPONSE_BUCKET } from '../keyValue/keyValue.ts';
import { inboxOf } from '../nats/natsAddress.ts';
import {
  ACK_REQUESTS,
  ackSubjectOf,
  EVENTS,
  refusalSubjectOf,
  STREAM,
  STREAM_OF_0_1_0,
  subjectOf,
} from '../usageStream/subjects.ts';

/** The subjects of one NATS user, as in the server's configuration. It may use no other. */
export interface NatsPermissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

/** The apps that use NATS. The control plane does not. */
export type NatsRole = 'data-plane' | 'metering';

export interface NatsUser {
  readonly user: string;
  /** The variable of the NATS server's environment that holds its password. */
  readonly passwordVariable: string;
  readonly permissions: NatsPermissions;
}

const API = '$JS.API';
/** Any shard, or any producer. */
const ANY = '*';

export interface PermissionOptions {
  /** The user's name, by default that of the role. Its inbox is its own. */
  readonly user?: string;
  /** The proxy with this spool can send its own usage only; then each proxy has its own user. Default: any. */
  readonly producerId?: string;
  /**
   * Whether proxies share cached responses. If not, they may not create the bucket: who creates a stream decides what the
   * server copies into and out of it.
   */
  readonly sharesCache?: boolean;
}

/** The least that an app needs. */
export function permissionsOf(
  role: NatsRole,
  { user = role, producerId = ANY, sharesCache = false }: PermissionOptions = {},
): NatsPermissions {
  const { publish, subscribe } = role === 'data-plane' ? dataPlane(producerId, sharesCache) : METERING;
  return { publish: [...COMMON, ...publish], subscribe: [`${inboxOf(user)}.>`, ...subscribe] };
}

/** Creating a stream that exists changes nothing. None may be changed, purged or deleted. */
const createdAndRead = (stream: string): readonly string[] => [
  `${API}.STREAM.INFO.${stream}`,
  `${API}.STREAM.CREATE.${stream}`,
];

const COMMON: readonly string[] = [
  `${API}.INFO`,
  ...createdAndRead(STREAM),
  `${API}.CONSUMER.INFO.${STREAM}.*`,
];

const bucketSubjects = (bucket: string): readonly string[] => [
  ...createdAndRead(`KV_${bucket}`),
  `${API}.STREAM.MSG.GET.KV_${bucket}`,
  `$KV.${bucket}.>`,
];

function dataPlane(producerId: string, sharesCache: boolean): NatsPermissions {
  const buckets = [PIN_BUCKET, RESPONSE_BUCKET, ...(sharesCache ? [CACHE_BUCKET] : [])];
  return {
    publish: [
      subjectOf(ANY, producerId),
      ACK_REQUESTS,
      refusalSubjectOf(producerId),
      ...buckets.flatMap(bucketSubjects),
    ],
    subscribe: [ackSubjectOf(producerId)],
  };
}

const read = (stream: string): readonly string[] => [
  `${API}.CONSUMER.CREATE.${stream}.>`,
  `${API}.CONSUMER.MSG.NEXT.${stream}.*`,
  `$JS.ACK.${stream}.>`,
];

const METERING: NatsPermissions = {
  publish: [
    ...read(STREAM),
    // What proxies of release 0.1.0 sent, if there is any.
    `${API}.STREAM.INFO.${STREAM_OF_0_1_0}`,
    `${API}.CONSUMER.INFO.${STREAM_OF_0_1_0}.*`,
    ...read(STREAM_OF_0_1_0),
    ackSubjectOf(ANY),
    `${EVENTS}.*`,
  ],
  subscribe: [ACK_REQUESTS, refusalSubjectOf(ANY)],
};

/** The users that the chart's example, the compose file and the documentation give to NATS. */
export const NATS_USERS: readonly NatsUser[] = [
  {
    user: 'data-plane',
    passwordVariable: 'NATS_DATA_PLANE_PASSWORD',
    permissions: permissionsOf('data-plane'),
  },
  { user: 'metering', passwordVariable: 'NATS_METERING_PASSWORD', permissions: permissionsOf('metering') },
  // People, with the `nats` command line.
  {
    user: 'operator',
    passwordVariable: 'NATS_OPERATOR_PASSWORD',
    permissions: { publish: ['>'], subscribe: ['>'] },
  },
];

/** Users in the NATS server's configuration format. Passwords come from its environment. */
export function natsConfiguration(users: readonly NatsUser[]): string {
  const list = (subjects: readonly string[]) =>
    subjects.map((subject) => `\n          ${JSON.stringify(subject)}`).join('');
  const one = ({ user, passwordVariable, permissions }: NatsUser) => `    {
      user: ${JSON.stringify(user)}
      password: $${passwordVariable}
      permissions: {
        publish: { allow: [${list(permissions.publish)}
        ] }
        subscribe: { allow: [${list(permissions.subscribe)}
        ] }
      }
    }
`;
  return `authorization: {
  users: [
${users.map(one).join('')}  ]
}
`;
}
