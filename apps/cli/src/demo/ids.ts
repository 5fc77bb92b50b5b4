/** Crockford's alphabet in lower case, as in ids of the service. */
const BASE32 = '0123456789abcdefghjkmnpqrstvwxyz';

/** A UUIDv7 of a time, with random numbers from a seed. */
export function uuidAt(at: Date, random: () => number): string {
  const time = at.getTime().toString(16).padStart(12, '0');
  const digits = (count: number) =>
    Array.from({ length: count }, () => Math.floor(random() * 16).toString(16)).join('');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${digits(3)}-8${digits(3)}-${digits(12)}`;
}

/** The id of a request from its UUID, as the service writes it. */
export function requestIdOf(uuid: string): string {
  const value = BigInt(`0x${uuid.replaceAll('-', '')}`);
  const text = value.toString(32).padStart(26, '0');
  return `req_${text.replace(/./g, (digit) => BASE32[Number.parseInt(digit, 32)] ?? '')}`;
}
