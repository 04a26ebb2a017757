//! Synonyms in the language of tools, such as `delete` and `remove`, also across languages.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use crate::search::words::words;

/// The groups that a word belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sense(u128);

impl Sense {
    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn groups(self) -> impl Iterator<Item = usize> {
        (0..GROUPS.len()).filter(move |group| self.0 >> group & 1 == 1)
    }
}

pub(super) fn sense(stem: &str) -> Option<Sense> {
    SENSES.get(stem).copied()
}

/// Returns the stems of each group, sorted.
pub(super) fn stems() -> &'static [Vec<String>] {
    &STEMS
}

static STEMS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let of_group = |group: &&str| {
        let stems: BTreeSet<String> = words(group).into_iter().map(|word| word.stem.into_owned()).collect();
        stems.into_iter().collect()
    };
    GROUPS.iter().map(of_group).collect()
});

static SENSES: LazyLock<HashMap<String, Sense>> = LazyLock::new(|| {
    let mut senses: HashMap<String, Sense> = HashMap::new();
    for (number, group) in GROUPS.iter().enumerate() {
        for word in words(group) {
            senses.entry(word.stem.into_owned()).or_insert(Sense(0)).0 |= 1 << number;
        }
    }
    senses
});

const _: () = assert!(GROUPS.len() <= u128::BITS as usize, "a bit for every group");

/// Groups of synonyms: first actions, then objects. Chinese words have two characters, because the search reads pairs.
const GROUPS: &[&str] = &[
    "delete remove destroy drop erase purge trash wipe discard 删除 移除 清除 削除 삭제",
    "get list show fetch retrieve read view display obtain 获取 读取 查看 显示 列出 取得 表示 一覧 조회 목록",
    "search find lookup query discover locate browse 搜索 查询 查找 检索 検索 검색",
    "create add make new generate insert build 创建 新建 添加 生成 新增 作成 追加 생성 추가",
    "write save store record 写入 保存",
    "update edit modify change set alter adjust 更新 修改 编辑 設定 设置 変更 編集 수정",
    "send deliver dispatch submit 发送 送信 전송",
    "start begin launch run execute invoke trigger 运行 执行 启动 开始 実行 실행",
    "stop end halt terminate kill abort cancel close 停止 终止 取消 关闭 중지",
    "move rename relocate 移动",
    "copy duplicate clone 复制",
    "merge combine join 合并",
    "compare diff difference versus 比较 对比 비교",
    "convert transform 转换 変換 변환",
    "calculate compute evaluate 计算 計算 계산",
    "analyze analyse examine inspect assess 分析",
    "summarize summary digest 摘要 总结 요약",
    "translate translation 翻译 번역",
    "check verify validate test 检查 验证 확인",
    "download export 下载 导出",
    "upload import 上传 导入",
    "enable activate 启用",
    "disable deactivate 禁用",
    "deploy deployment rollout 部署",
    "schedule plan 计划 安排",
    "notify alert notification warning reminder 通知 提醒 警报 预警",
    "subscribe follow 订阅 关注",
    "post publish share tweet 发布",
    "comment reply respond review feedback 评论 回复",
    "ask question answer prompt 问题 回答 提问",
    "buy purchase order 购买 订单",
    "login signin auth authenticate authentication 登录",
    "mail email inbox 邮件 邮箱 메일",
    "message chat msg sms 消息 短信",
    "file attachment 文件 파일",
    "folder directory dir 目录",
    "document doc 文档 文書 문서",
    "repository repo 仓库",
    "issue ticket bug",
    "code source program 代码",
    "image picture photo photograph 图片 图像 照片 画像 사진",
    "video clip 视频 動画",
    "movie film 电影 影片 映画 영화",
    "music song audio 音乐 歌曲 音频 音楽 음악",
    "weather forecast climate 天气 气象 天気 날씨 예보",
    "price cost quote fee 价格 报价 가격",
    "stock share equity ticker 股票 주식",
    "currency forex money 货币 汇率 환율",
    "crypto cryptocurrency coin token 加密",
    "transaction transfer payment 交易 支付 转账 결제",
    "wallet balance holding portfolio 钱包 余额",
    "invoice bill receipt 发票",
    "user account member 用户 会员",
    "person people contact 联系 人物",
    "calendar event appointment meeting 日历 会议 日程 일정",
    "task todo 任务",
    "note memo 笔记",
    "map location place address 地图 地址 位置 地点",
    "route direction navigation 路线 导航",
    "train railway rail 火车 列车 车票",
    "flight plane airline 航班 机票",
    "hotel accommodation lodging 酒店",
    "restaurant food dining 餐厅 美食",
    "news headline article 新闻 뉴스",
    "trend popular rank ranking hot top 热门 热榜 排行 榜单 趋势",
    "book novel 图书 书籍 小说",
    "game 游戏 게임",
    "product goods merchandise shop 商品 产品 购物",
    "database db 数据",
    "website site webpage page url link 网站 网页 链接",
    "chart graph plot diagram visualization 图表",
    "time clock date datetime 时间 日期 시간 날짜",
    "password secret credential 密码",
    "job vacancy employment hiring 职位 招聘",
    "company business firm 公司 企业 회사",
    "health medical medicine clinical 健康 医疗",
    "course lesson education tutorial 课程 学习 教育",
    "tag label 标签",
    "permission access role 权限",
    "log history activity 日志 记录 历史",
    "error exception failure 错误",
    "screenshot capture snapshot 截图",
    "phone mobile telephone 手机 电话",
    "paper publication research 论文",
    "package library dependency module",
    "version release 版本",
    "container docker",
    "information info detail 信息 详情 정보",
    "count number total 数量 统计",
    "memory remember recall 记忆",
    "country nation nationality 国家",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn alike(one: &str, other: &str) -> bool {
        let sense_of = |word: &str| words(word).first().and_then(|word| sense(&word.stem));
        sense_of(one).zip(sense_of(other)).is_some_and(|(one, other)| one.meets(other))
    }

    #[test]
    fn words_of_a_group_meet() {
        for (one, other, expected) in [
            ("deleting", "remove", true),
            ("Drops", "destroyed", true),
            ("email", "mails", true),
            ("weather", "天气", true),
            ("list", "fetch", true),
            ("list", "delete", false),
            ("weather", "nothing", false),
        ] {
            assert_eq!(alike(one, other), expected, "{one} {other}");
        }
    }

    /// An entry that is read as several words would never match.
    #[test]
    fn every_word_is_one_word() {
        for group in GROUPS {
            for word in group.split(' ') {
                assert_eq!(words(word).len(), 1, "{word}");
            }
        }
    }
}
