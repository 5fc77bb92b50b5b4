/** Throws on other systems. A test that was left out there would look as if it had passed. */
export function requireLinux(why: string, platform: NodeJS.Platform = process.platform): void {
  if (platform === 'linux') return;
  throw new Error(`This test needs Linux: ${why}. Run it in a container, such as node:24-bookworm.`);
}
