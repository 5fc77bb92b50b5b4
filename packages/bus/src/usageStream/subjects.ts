/** The JetStream stream of usage. */
export const STREAM = 'USAGE';
/** Producers ask here for the acks that they missed. */
export const ACK_REQUESTS = 'usage.confirm-queries';
export const ACK_REQUEST_GROUP = 'metering';
/** Notifications for whoever listens. */
export const EVENTS = 'events.v1';

const USAGE = 'usage.v1';
/** All usage: a shard, and the producer that sends it. */
export const SUBJECTS = `${USAGE}.*.*`;
const TOKEN = /^[\w-]+$|^\*$/;

/** A shard's usage of one producer; either may be `*`. */
export function subjectOf(shard: number | '*', producerId: string): string {
  return `${USAGE}.${shard === '*' ? '*' : `s${shard}`}.${token(producerId)}`;
}

/** The producer in a subject of usage. NATS' permissions are by subject: who may not publish here is not that producer. */
export function producerOf(subject: string): string {
  return subject.slice(subject.lastIndexOf('.') + 1);
}

export function ackSubjectOf(producerId: string): string {
  return `usage.confirms.${token(producerId)}`;
}

function token(producerId: string): string {
  if (TOKEN.test(producerId)) return producerId;
  throw new Error(`"${producerId}" is no producer id`);
}
