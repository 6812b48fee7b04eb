// Whether an image that a person names in short is among those that are here in full.

const withTag = (reference: string): string => {
  const last = reference.slice(reference.lastIndexOf('/') + 1);
  return last.includes(':') || reference.includes('@') ? reference : `${reference}:latest`;
};

export function isHere(name: string, references: readonly string[]): boolean {
  if (name === '' || name === 'host') return true;
  const wanted = withTag(name);
  return references.some((one) => withTag(one) === wanted || withTag(one).endsWith(`/${wanted}`));
}
