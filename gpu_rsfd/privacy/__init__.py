"""What a report gives away: the exact loss, and the best attack."""

from gpu_rsfd.privacy.attacking import AttackResult, attack
from gpu_rsfd.privacy.chunks import ReportChunk, report_chunks
from gpu_rsfd.privacy.loss import privacy_loss

__all__ = ["AttackResult", "ReportChunk", "attack", "privacy_loss", "report_chunks"]
