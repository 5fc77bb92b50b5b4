import { existsSync } from 'node:fs';

/** The file by which podman marks its containers. */
const PODMAN_MARK = '/run/.containerenv';

/** How to run a command in the container that this process is in, such as `docker exec 0123456789ab`. */
export function execInContainer(hostName: string, exists: (path: string) => boolean = existsSync): string {
  // The container's id, unless it was given another name.
  const name = /^[0-9a-f]{12}$/.test(hostName) ? hostName : '<CONTAINER>';
  return `${exists(PODMAN_MARK) ? 'podman' : 'docker'} exec ${name}`;
}
