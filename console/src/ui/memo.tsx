// A component that is drawn again only when `same` says that its properties differ.
import { Component, type FunctionComponent } from 'preact';

export function memo<P extends object>(
  Inner: FunctionComponent<P>,
  same: (a: P, b: P) => boolean,
): FunctionComponent<P> {
  class Kept extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return !same(this.props as P, next);
    }
    override render() {
      return <Inner {...(this.props as P)} />;
    }
  }
  return Kept as unknown as FunctionComponent<P>;
}
